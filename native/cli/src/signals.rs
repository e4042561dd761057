//! Handling of Ctrl-C and other signals that stop a program.
#![cfg_attr(unix, allow(unsafe_code))]

use std::sync::atomic::{AtomicBool, Ordering};

/// The status that shells report for a program stopped by Ctrl-C.
const STATUS: i32 = 130;

/// True once the process is being stopped.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Makes a signal remove unfinished files and end the process. Ignored signals stay
/// ignored: `nohup` ignores `SIGHUP`, and shells ignore `SIGINT` for background
/// commands.
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

/// Makes Ctrl-C remove unfinished files and end the process.
#[cfg(not(unix))]
pub fn clean_up_when_stopped() {
    let _ = ctrlc::try_set_handler(|| stop());
}

/// The signals that stop a server. They are caught before it listens, so that none of
/// them ends the process without the grace period.
#[cfg(unix)]
pub struct Caught(Option<signal_hook::iterator::Signals>);

/// Catches the signals that stop a program. They are handled by [`Caught::end_with`].
#[cfg(unix)]
pub fn catch() -> Caught {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut asking = vec![SIGHUP, SIGINT, SIGTERM];
    asking.retain(|&signal| !is_ignored(signal));
    Caught(signal_hook::iterator::Signals::new(asking).ok())
}

#[cfg(unix)]
impl Caught {
    /// Makes the first signal call `end`, and the second one remove unfinished files
    /// and end the process.
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

/// A handle for Ctrl-C, which [`Caught::end_with`] handles.
#[cfg(not(unix))]
pub struct Caught;

/// Returns the handle for Ctrl-C.
#[cfg(not(unix))]
pub fn catch() -> Caught {
    Caught
}

#[cfg(not(unix))]
impl Caught {
    /// Makes the first Ctrl-C call `end`, and the second one remove unfinished files
    /// and end the process.
    pub fn end_with(self, end: impl Fn() + Send + 'static) {
        let is_second = AtomicBool::new(false);
        let _ = ctrlc::try_set_handler(move || match is_second.swap(true, Ordering::SeqCst) {
            false => end(),
            true => stop(),
        });
    }
}

/// Removes unfinished files and ends the process.
pub fn stop() -> ! {
    // The flag is set first: work whose files are removed fails, and its error must not
    // be printed.
    STOPPED.store(true, Ordering::SeqCst);
    zstn::remove_unfinished();
    std::process::exit(STATUS);
}

#[cfg(unix)]
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeros is a valid `sigaction`, which is a plain C struct. `present` is
    // valid for writes during the call, and because the new action is null, the call
    // only writes the current action to it.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}

/// Blocks until the process ends, if it is being stopped, so that neither a message nor
/// another exit status comes first.
pub fn wait_if_stopped() {
    while STOPPED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}
