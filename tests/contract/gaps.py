"""What a backend cannot do of the contract, each with its reason: by the name of the test that would show it.

`tests/backends/e2b/test_gaps.py` holds that it is refused, where there is something to refuse.
"""

from __future__ import annotations

from typing import Final

_BYTES = "its wire carries names of variables and of watched files as text"
_LIMITS = "it cannot limit what one command may use"
_FIGURES = "it tells no figures, of commands or of machines"
_PORTS = "it carries HTTP to ports, and no bytes"
_PAUSE = "it hangs up on every command when it pauses"
_TAR = "GNU's tar inside unpacks: it goes through links, and leaves a leading slash out"

REMOTE_GAPS: Final = {
    "test_the_environment_is_the_one_given": _BYTES,
    "test_only_the_promised_variables_are_added_to_the_environment": "the provider adds its own",
    "test_limits_of_one_command_hold_for_it": _LIMITS,
    "test_a_limit_on_processes_is_the_commands_alone": _LIMITS,
    "test_a_command_beyond_its_memory_is_killed_and_told_so": _LIMITS,
    "test_the_figures_of_a_command_are_plausible": _FIGURES,
    "test_the_figures_of_a_machine_are_plausible": _FIGURES,
    "test_the_figures_follow_what_happens": _FIGURES,
    "test_an_archive_cannot_write_outside_its_root": _TAR,
    "test_a_server_in_the_sandbox_can_be_talked_to": _PORTS,
    "test_connections_at_once_do_not_mix": _PORTS,
    "test_a_port_where_nobody_listens_refuses": _PORTS,
    "test_a_paused_machine_goes_on_where_it_was": _PAUSE,
    "test_requests_made_while_a_machine_is_paused_are_answered_when_it_goes_on": _PAUSE,
    "test_names_are_any_bytes": _BYTES,
    "test_a_watch_that_nobody_reads_tells_that_it_missed_changes": "its wire tells no overflow",
    "test_a_file_that_the_host_writes_is_told_under_its_own_name": (
        "a shell writes it, so that its mode changes by a step of its own"
    ),
}

# What takes long on any machine, and is no different with a backend that speaks HTTP.
REMOTE_LEFT_OUT: Final = frozenset(
    {
        "test_two_hundred_megabytes_of_output_need_bounded_memory",
        "test_twenty_megabytes_survive_both_ways_in_one_archive",
        "test_much_input_arrives_whole",
        "test_a_directory_of_thousands_is_listed_whole",
        "test_commands_at_once_do_not_mix_their_output",
        "test_output_chunks_carry_their_offsets_without_gaps",
        "test_what_lies_in_a_new_directory_is_never_missed",
        "test_a_link_in_a_watched_directory_leads_nowhere",
        "test_a_directory_that_was_moved_is_told_of_under_its_new_name_alone",
        "test_removing_a_tree_does_not_follow_its_symlinks",
        "test_a_reader_of_a_replaced_file_keeps_the_old_one",
        "test_what_runs_in_the_background_outlives_its_command",
        "test_a_script_without_an_interpreter_line_is_run_by_the_shell",
        "test_a_variable_given_twice_over_the_defaults_wins",
        "test_an_archive_cut_short_is_refused",
        "test_a_file_written_through_a_symlink_is_the_guests_own",
        "test_missing_directories_are_made_only_when_asked_for",
        "test_writing_replaces_the_whole_file",
        "test_output_without_a_last_newline_is_whole",
        "test_a_command_knows_no_more_open_files_than_its_three",
        "test_input_that_nobody_reads_does_not_hold_the_command_up",
    }
)

# Of a test's further values the first is tried with a machine elsewhere, and these.
REMOTE_ALSO: Final = (
    "test_the_exit_status_is_the_commands_own[remote_e2b-127]",
    "test_arguments_arrive_as_they_are[remote_e2b-shell]",
    "test_arguments_arrive_as_they_are[remote_e2b-not-utf-8]",
    "test_death_by_a_signal_is_told_as_the_shell_does[remote_e2b-64]",
    "test_odd_names_survive_writing_listing_renaming_and_removing[remote_e2b-2]",
    "test_what_cannot_be_done_is_refused_with_its_reason[remote_e2b-read-/etc/passwd/x-not-a-directory]",
    "test_what_cannot_be_done_is_refused_with_its_reason[remote_e2b-mkdir-/etc-exists]",
    "test_what_is_no_program_is_not_executable[remote_e2b-/tmp]",
)

# A worker's guest is the one that machines of this host have: these are about it alone, take seconds, and are not run
# a second time over ssh. What a connection could spoil is.
WORKER_LEFT_OUT: Final = frozenset(
    {
        "test_a_background_process_that_holds_the_pipes_does_not_hold_the_result",
        "test_a_command_beyond_its_memory_is_killed_and_told_so",
        "test_a_directory_of_thousands_is_listed_whole",
        "test_a_limit_on_processes_is_the_commands_alone",
        "test_a_reader_of_a_replaced_file_keeps_the_old_one",
        "test_a_timeout_takes_what_ignores_it_and_what_was_left_behind",
        "test_a_watch_that_nobody_reads_tells_that_it_missed_changes",
        "test_an_archive_cannot_write_outside_its_root",
        "test_reading_a_pipe_without_a_writer_does_not_hang",
        "test_the_figures_follow_what_happens",
        "test_the_figures_of_a_command_are_plausible",
        "test_twenty_megabytes_survive_both_ways_in_one_archive",
        "test_two_hundred_megabytes_of_output_need_bounded_memory",
        "test_what_runs_in_the_background_outlives_its_command",
    }
)

# Of a test's further values the first is tried over ssh, and of these all: bytes are what it could spoil.
WORKER_WITH_ALL: Final = frozenset(
    {
        "test_a_file_comes_back_as_it_was_written",
        "test_arguments_arrive_as_they_are",
        "test_odd_names_survive_writing_listing_renaming_and_removing",
    }
)
