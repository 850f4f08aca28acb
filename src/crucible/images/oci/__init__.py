"""OCI images up to verified bytes on disk: names, registries, archives, the store. Not what a layer holds."""
