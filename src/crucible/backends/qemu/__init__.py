"""QEMU: the backend that runs everywhere, with KVM, HVF or in software."""
