"""Commands that look into a running job, through the folder of its run in blob storage."""
