"""What requests and answers look like: pydantic at the door, and nowhere else."""
