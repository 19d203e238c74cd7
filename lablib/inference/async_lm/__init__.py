"""Many callers share batches and prefixes without knowing of each other."""
