//! Loops over all bytes of a tensor, compiled twice: for every processor of the
//! target, and for x86 processors with AVX2 and BMI2, which have wider vectors
//! and shifts that wait for nothing else. Both compute the same.

/// A loop and what it works on.
///
/// Implementations are `#[inline(always)]`, as is all that they call for each
/// element: only what is part of the caller is compiled for its processor.
pub trait Kernel {
    /// What the loop returns.
    type Output;

    /// Runs the loop.
    fn run(self) -> Self::Output;
}

/// Runs a kernel as it was compiled for this processor.
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
