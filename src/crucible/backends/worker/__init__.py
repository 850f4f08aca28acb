"""Machines on another host that has Crucible, reached by a command such as `ssh worker microvmctl`."""
