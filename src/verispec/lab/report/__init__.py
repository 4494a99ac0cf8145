"""What an experiment came to, as a page: facts from the ledger, plots, and the HTML around them."""
