//! Result buffers of the exact length, surrounded by guard bytes.

use std::ffi::c_void;

use zstn_capi::{ZSTN_ERROR_USAGE, zstn_error, zstn_status};

use super::{Outcome, call};

/// Number of bytes before and after a buffer that must not be written.
const GUARD_BYTES: usize = 64;
/// Initial values of buffers and their guards. A result is read twice with different
/// initial values, which reveals bytes that the library does not write.
const GUARDS: [u8; 2] = [0xA5, 0x3C];

/// A caller's buffer with a guard on both sides.
pub struct Room {
    bytes: Vec<u8>,
    len: usize,
    guard: u8,
}

impl Room {
    /// Allocates a buffer of `len` bytes; `number` selects its initial value.
    pub fn new(len: usize, number: usize) -> Self {
        let guard = GUARDS[number % GUARDS.len()];
        Self {
            bytes: vec![guard; len + 2 * GUARD_BYTES],
            len,
            guard,
        }
    }

    pub fn pointer(&mut self) -> *mut c_void {
        self.bytes[GUARD_BYTES..].as_mut_ptr().cast()
    }

    /// Returns the buffer after checking that the guards are intact.
    pub fn into_bytes(mut self) -> Vec<u8> {
        let (before, rest) = self.bytes.split_at(GUARD_BYTES);
        let guards = before.iter().chain(&rest[self.len..]);
        assert!(
            guards.into_iter().all(|byte| *byte == self.guard),
            "the library wrote beside the {} bytes of a result",
            self.len
        );
        self.bytes.truncate(GUARD_BYTES + self.len);
        self.bytes.split_off(GUARD_BYTES)
    }
}

/// Calls a function that fills `len` bytes. A buffer that is one byte too short must be
/// refused before anything is written.
pub fn fill(
    len: usize,
    number: usize,
    function: impl Fn(*mut c_void, usize, *mut zstn_error) -> zstn_status,
) -> Outcome<Vec<u8>> {
    if let Some(short) = len.checked_sub(1) {
        let mut room = Room::new(short, number);
        let refused = call(|error| function(room.pointer(), short, error));
        assert_eq!(refused, Err(ZSTN_ERROR_USAGE), "{short} bytes for {len}");
        let guard = room.guard;
        assert!(room.into_bytes().iter().all(|byte| *byte == guard));
    }
    let mut room = Room::new(len, number);
    let outcome = call(|error| function(room.pointer(), len, error));
    let bytes = room.into_bytes();
    outcome.map(|()| bytes)
}
