"""One public function per verb: what the command line runs, on a path, a pattern, a frame or arrays."""
