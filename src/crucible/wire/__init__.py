"""What host and guest say to each other, as `guest/PROTOCOL.md` has it. Pure: no I/O, no clock."""
