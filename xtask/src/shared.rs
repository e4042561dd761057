//! A result that several suites need.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// A value made by the first caller that needs it. Callers on other threads wait
/// until it is made.
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
    /// Returns the value; `make` is called once. Only its first caller gets the
    /// error of `make`, so that it is reported once.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Made(value) => return Ok(value.clone()),
            State::Failed => bail!("left out: an earlier step that it needs has failed"),
            State::New => {}
        }
        // Until it succeeds, also if `make` panics.
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
