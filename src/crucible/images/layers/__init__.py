"""From the verified layers of an OCI image to one squashfs. Nothing in a layer ever names a path of the host.

`reading` gives a layer's tar and compares its digests, `headers` reads its entries, `tree` applies them one over the
other, `content` keeps the files' bytes, and `squash` writes the tree beside them.
"""
