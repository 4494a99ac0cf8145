"""A page on this machine that looks at the ledger: experiments, lanes, records, what was tried. It changes nothing."""
