"""The only room that touches torch's private names, one file a subject.

Each name is probed before it is used. What a version of torch does not have is left out and told
by `hooks.unknown`, never guessed.
"""
