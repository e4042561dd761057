//! Damaged or forged input leads to a typed error that names the broken rule, never to
//! a panic, and never to memory that only a forged number justifies.
//!
//! The allocator counts the memory of the whole process, so every test here begins with
//! [`zstn_tests::allocator::alone`].

mod compressed_tensors;
mod foreign;
mod four_gib;
mod malformed;
mod restored;

use zstn_tests::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
