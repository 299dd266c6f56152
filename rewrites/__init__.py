"""Source rewrites on libcst, found by an explained run or by static facts, then proved."""
