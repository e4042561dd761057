//! Loops over all bytes of a tensor, compiled twice: for every processor of the
//! target, and for x86 processors with AVX2 and BMI2, which have wider vectors
//! and shifts that do not depend on flags. Both versions compute the same
//! result.

/// A loop and its arguments.
///
/// Implementations must be `#[inline(always)]`, and so must all functions that
/// they call for each element, because only inlined code is compiled for the
/// caller's processor features.
pub trait Kernel {
    /// The result of the loop.
    type Output;

    /// Runs the loop.
    fn run(self) -> Self::Output;
}

/// Runs a kernel in the version for this processor.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    return crate::avx2::call!(run_wide, kernel; else kernel.run());
    #[cfg(not(target_arch = "x86_64"))]
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_wide<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
