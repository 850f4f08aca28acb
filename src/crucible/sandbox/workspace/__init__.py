"""Files that cross the boundary: trees packed and unpacked, what a sandbox changed, and writing it to the host.

Blocking and on the host's side only. Whatever comes from a guest is hostile here: a name is never resolved on the
host by the kernel as a whole, no symbolic link is ever followed, and everything has a limit.
"""
