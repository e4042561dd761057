//! Ctrl-C and the other signals that ask a program to end.

use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell reports of a program ended by Ctrl-C.
const STATUS: i32 = 130;

/// Whether the handler of a signal is at work.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Has a signal remove what is half-made and end the process. Where a signal
/// is ignored or handled already, as under `nohup`, all stays as it is.
pub fn clean_up_when_stopped() {
    let _ = ctrlc::try_set_handler(|| {
        // First of all: work that misses the removed files fails, and nobody
        // wants to read that.
        STOPPED.store(true, Ordering::SeqCst);
        zstn::remove_unfinished();
        std::process::exit(STATUS);
    });
}

/// Waits for the end of the process once a signal has asked for it, so that
/// neither a message nor another exit status gets in first.
pub fn wait_if_stopped() {
    while STOPPED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}
