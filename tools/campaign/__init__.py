"""The fault campaign (`make campaign`): kills, signals, full disks and malformed input, against the real commands."""
