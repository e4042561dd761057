//! Ctrl-C and the other signals that ask a program to end.
#![cfg_attr(unix, allow(unsafe_code))]

use std::sync::atomic::{AtomicBool, Ordering};

/// The status that a shell reports for a program ended by Ctrl-C.
const STATUS: i32 = 130;

/// True once the handler of a signal has begun.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Has a signal remove what is half-made and end the process. A signal that
/// is ignored, as `nohup` does with `SIGHUP` and shells do with `SIGINT` for
/// commands in the background, stays ignored; the others are handled.
#[cfg(unix)]
pub fn clean_up_when_stopped() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut asking = vec![SIGHUP, SIGINT, SIGTERM];
    asking.retain(|&signal| !is_ignored(signal));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(asking) {
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                stop();
            }
        });
    }
}

/// Has Ctrl-C remove what is half-made and end the process.
#[cfg(not(unix))]
pub fn clean_up_when_stopped() {
    let _ = ctrlc::try_set_handler(|| stop());
}

/// The signals that ask a server to end, caught before it listens, so that none of them
/// ends the process without grace.
#[cfg(unix)]
pub struct Caught(Option<signal_hook::iterator::Signals>);

/// Catches the signals that ask a program to end. They wait for [`Caught::end_with`].
#[cfg(unix)]
pub fn catch() -> Caught {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut asking = vec![SIGHUP, SIGINT, SIGTERM];
    asking.retain(|&signal| !is_ignored(signal));
    Caught(signal_hook::iterator::Signals::new(asking).ok())
}

#[cfg(unix)]
impl Caught {
    /// Has a first signal call `end`, and a second one remove what is half-made and end
    /// the process.
    pub fn end_with(self, end: impl Fn() + Send + 'static) {
        let Some(mut signals) = self.0 else {
            return;
        };
        std::thread::spawn(move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                end();
            }
            if signals.next().is_some() {
                stop();
            }
        });
    }
}

/// Ctrl-C, which is caught with [`Caught::end_with`].
#[cfg(not(unix))]
pub struct Caught;

/// Prepares for Ctrl-C.
#[cfg(not(unix))]
pub fn catch() -> Caught {
    Caught
}

#[cfg(not(unix))]
impl Caught {
    /// Has a first Ctrl-C call `end`, and a second one remove what is half-made and end
    /// the process.
    pub fn end_with(self, end: impl Fn() + Send + 'static) {
        let is_second = AtomicBool::new(false);
        let _ = ctrlc::try_set_handler(move || match is_second.swap(true, Ordering::SeqCst) {
            false => end(),
            true => stop(),
        });
    }
}

/// Removes what is half-made and ends the process.
pub fn stop() -> ! {
    // First of all: work that misses the removed files fails, and nobody
    // wants to read that.
    STOPPED.store(true, Ordering::SeqCst);
    zstn::remove_unfinished();
    std::process::exit(STATUS);
}

#[cfg(unix)]
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros is a valid value of the structure; without a new
    // action the call only writes the present one into it.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}

/// Waits for the end of the process once a signal has asked for it, so that
/// neither a message nor another exit status gets in first.
pub fn wait_if_stopped() {
    while STOPPED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}
