//! Memory for results, exactly as long as they are.

use std::ffi::c_void;

use zstn_capi::{ZSTN_ERROR_USAGE, zstn_error, zstn_status};

use super::{Outcome, call};

/// Bytes before and after that nobody may write to.
const GUARD_BYTES: usize = 64;
/// Fill bytes of guards and room. A result is read twice, each time with another
/// fill: the two differ where the library writes nothing.
const GUARDS: [u8; 2] = [0xA5, 0x3C];

/// Memory of a caller, with a guard on both sides.
pub struct Room {
    bytes: Vec<u8>,
    len: usize,
    guard: u8,
}

impl Room {
    /// Makes room for `len` bytes. `number` chooses what they are before.
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

    /// Returns the bytes, none of which the library has written around.
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

/// Has a function fill `len` bytes. Room for one byte less has to be refused before
/// anything is written.
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
