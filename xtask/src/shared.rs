//! A value that several suites share.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// A value that is created by the first caller. Callers on other threads wait until it
/// has been created.
pub struct Shared<T>(Mutex<State<T>>);

enum State<T> {
    New,
    Made(T),
    Failed,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Mutex::new(State::New))
    }
}

impl<T: Clone> Shared<T> {
    /// Returns the value, and calls `make` once to create it. Only the first caller
    /// gets the error of `make`, so that it is reported once.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Made(value) => return Ok(value.clone()),
            State::Failed => bail!("left out: an earlier step that it needs has failed"),
            State::New => {}
        }
        // This remains the state if `make` fails or panics.
        *state = State::Failed;
        let value = make()?;
        *state = State::Made(value.clone());
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once() -> Result<()> {
        let shared = Shared::default();
        assert_eq!(shared.get(|| Ok(1))?, 1);
        assert_eq!(shared.get(|| bail!("made twice"))?, 1);
        Ok(())
    }

    #[test]
    fn a_failure_is_not_tried_again() {
        let shared = Shared::<u8>::default();
        assert!(shared.get(|| bail!("no")).is_err());
        assert!(shared.get(|| Ok(1)).is_err());
    }
}
