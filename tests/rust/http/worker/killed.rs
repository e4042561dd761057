//! Workers that end, in whatever way, and their successors.
