//! Hides values from the optimizer at no cost.
//!
//! `std::hint::black_box` moves its value through memory. An empty asm block uses a register.

use std::any::TypeId;
use std::mem::{ManuallyDrop, MaybeUninit};

/// Forces the value to be computed; drops it as usual.
#[inline(always)]
pub fn keep<T>(value: T) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        // SAFETY: the asm block is empty. Uninitialized bytes stay in a MaybeUninit.
        unsafe {
            match size_of::<T>() {
                0 => std::arch::asm!("", options(nostack, preserves_flags)),
                8 => {
                    let bits: MaybeUninit<u64> = std::mem::transmute_copy(&value);
                    std::arch::asm!("/* {0} */", in(reg) bits, options(nostack, preserves_flags));
                }
                4 => {
                    let bits: MaybeUninit<u32> = std::mem::transmute_copy(&value);
                    std::arch::asm!("/* {0:e} */", in(reg) bits, options(nostack, preserves_flags));
                }
                _ => {
                    std::arch::asm!("/* {0} */", in(reg) &raw const value, options(nostack, preserves_flags))
                }
            }
        }
        drop(value);
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    drop(std::hint::black_box(value));
}

/// Returns the shared value as if other threads might have changed its interior.
#[inline(always)]
pub fn change_shared<S>(shared: &S) -> &S {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut place: *const S = shared;
        // SAFETY: the asm block is empty, so the pointer is the same.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) place, options(nostack, preserves_flags));
            &*place
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(shared)
}

/// Marks the state as possibly changed, so that everything computed from it is computed again. Numbers
/// stay in their registers.
#[inline(always)]
pub fn change<T: 'static>(state: &mut T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the asm block is empty. Each pointer has the type that was checked.
    unsafe {
        let place: *mut T = state;
        let is = |known: TypeId| TypeId::of::<T>() == known;
        if is(TypeId::of::<()>()) {
        } else if is(TypeId::of::<f64>()) {
            let place = place.cast::<f64>();
            let mut value = place.read();
            std::arch::asm!("/* {0} */", inout(xmm_reg) value, options(nostack, preserves_flags));
            place.write(value);
        } else if is(TypeId::of::<f32>()) {
            let place = place.cast::<f32>();
            let mut value = place.read();
            std::arch::asm!("/* {0} */", inout(xmm_reg) value, options(nostack, preserves_flags));
            place.write(value);
        } else if is(TypeId::of::<u64>()) || is(TypeId::of::<i64>()) || is(TypeId::of::<usize>()) {
            let place = place.cast::<u64>();
            let mut value = place.read();
            std::arch::asm!("/* {0} */", inout(reg) value, options(nostack, preserves_flags));
            place.write(value);
        } else if is(TypeId::of::<u32>()) || is(TypeId::of::<i32>()) {
            let place = place.cast::<u32>();
            let mut value = place.read();
            std::arch::asm!("/* {0:e} */", inout(reg) value, options(nostack, preserves_flags));
            place.write(value);
        } else {
            std::arch::asm!("/* {0} */", in(reg) place, options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    if TypeId::of::<T>() != TypeId::of::<()>() {
        std::hint::black_box(state);
    }
}

/// A state that is a local variable while its loop runs, and is written back afterwards, even after a
/// panic. Behind a reference, a number would be stored and loaded in every iteration.
pub struct Held<'a, T> {
    place: &'a mut T,
    value: ManuallyDrop<T>,
}

impl<'a, T> Held<'a, T> {
    #[inline(always)]
    pub fn of(place: &'a mut T) -> Held<'a, T> {
        // SAFETY: `place` is not accessed until `drop` writes the value back.
        let value = ManuallyDrop::new(unsafe { std::ptr::read(place) });
        Held { place, value }
    }

    #[inline(always)]
    pub fn value(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the value was read from `place`, which is overwritten without being dropped;
        // `self.value` is not used again.
        unsafe { std::ptr::write(self.place, ManuallyDrop::take(&mut self.value)) }
    }
}
