"""`dure bench centre`: a real centre under load, submissions, pages of many jobs, Pods."""
