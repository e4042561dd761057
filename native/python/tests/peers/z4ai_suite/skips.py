"""The tests of z4ai 0.2.0 that are not run on `zstn.z4ai`, with the reasons."""

#: Whole files.
FILES: dict[str, str] = {}

#: Single tests.
TESTS: dict[str, str] = {}
