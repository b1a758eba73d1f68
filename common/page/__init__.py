"""What all HTML pages have in common: one look, and pieces that cannot be taken for markup."""
