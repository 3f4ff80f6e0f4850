//! Measures one piece of Rust code that is compiled into the same program: the harness side of
//! docs/reference/protocol.md, "Measuring code".
//!
//! Compiled once per compiler and set of flags, without Cargo or other crates. The code generated around it
//! calls [`serve`]; it contains the loop, and uses [`keep`], [`change`] and [`Held`].

mod answers;
mod control;
mod histogram;
mod keep;
mod perform;
mod process;
mod report;
mod requests;
mod run;
mod wire;
mod worker;

pub use keep::{change, change_shared, keep, Held};

use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The code without its types, so that everything except the loop can be compiled in advance.
pub(crate) trait Code: Sync {
    fn init(&self);
    fn begin(&self) -> Box<dyn Any>;
    fn batch(&self, state: &mut dyn Any, iterations: u64);
    fn empty(&self, iterations: u64);
    fn done(&self);
    /// Drops the shared value.
    ///
    /// # Safety
    /// No worker may use it anymore.
    unsafe fn release(&self);
}

struct Parts<S, I, W, B, E, D> {
    /// From a box; null before `init` and after `release`.
    shared: AtomicPtr<S>,
    init: I,
    begin: W,
    batch: B,
    empty: E,
    done: D,
}

impl<S, I, W, B, E, D> Parts<S, I, W, B, E, D> {
    fn shared(&self) -> &S {
        // SAFETY: the control thread calls init first, and releases the value after its last use.
        unsafe { &*self.shared.load(Ordering::Acquire) }
    }
}

impl<S, T, I, W, B, E, D> Code for Parts<S, I, W, B, E, D>
where
    S: Send + Sync,
    T: 'static,
    I: Fn() -> S + Sync,
    W: Fn(&S) -> T + Sync,
    B: Fn(&S, &mut dyn Any, u64) + Sync,
    E: Fn(u64) + Sync,
    D: Fn(&S) + Sync,
{
    fn init(&self) {
        let shared = Box::into_raw(Box::new((self.init)()));
        self.shared.store(shared, Ordering::Release);
    }
    fn begin(&self) -> Box<dyn Any> {
        Box::new((self.begin)(self.shared()))
    }
    fn batch(&self, state: &mut dyn Any, iterations: u64) {
        (self.batch)(self.shared(), state, iterations);
    }
    fn empty(&self, iterations: u64) {
        (self.empty)(iterations);
    }
    fn done(&self) {
        (self.done)(self.shared());
    }
    unsafe fn release(&self) {
        let shared = self.shared.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !shared.is_null() {
            // SAFETY: it came from a box, and the caller guarantees that it is not used anymore.
            drop(unsafe { Box::from_raw(shared) });
        }
    }
}

/// Serves Speedwell until the end of the commands. `batch` executes this many iterations, `empty` as many
/// of an empty runner. The parameters are in the order in which their types are inferred: the type that
/// `init` returns is known where the runner uses it.
#[inline(always)]
pub fn serve<S, T, X, I, W, B, E, D>(init: I, begin: W, batch: B, empty: E, done: D)
where
    S: Send + Sync + 'static,
    T: 'static,
    I: Fn() -> S + Sync + 'static,
    W: Fn(&S) -> T + Sync + 'static,
    B: Fn(&S, &mut T, u64) + Sync + 'static,
    E: Fn(u64) + Sync + 'static,
    D: Fn(&S) -> X + Sync + 'static,
{
    let batch = move |shared: &S, state: &mut dyn Any, iterations: u64| {
        let state = state
            .downcast_mut()
            .expect("a worker has the state that begin gave it");
        batch(shared, state, iterations);
    };
    let done = move |shared: &S| {
        done(shared);
    };
    let shared = AtomicPtr::new(std::ptr::null_mut());
    control::serve(Box::leak(Box::new(Parts {
        shared,
        init,
        begin,
        batch,
        empty,
        done,
    })));
}

/// A panic, and the file and line that it came from.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub message: String,
    pub place: Option<(String, u32)>,
}

thread_local! {
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

/// Records the text of panics for their events, instead of printing it.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let message = text.unwrap_or_else(|| "the panic payload is not a string".to_owned());
        let place = panic
            .location()
            .map(|place| (place.file().to_owned(), place.line()));
        FAULT.with_borrow_mut(|fault| *fault = Some(Fault { message, place }));
    }));
}

/// Executes `code`; returns a panic as an error.
pub(crate) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| {
        let unknown = Fault {
            message: "a panic without a message".to_owned(),
            place: None,
        };
        FAULT.take().unwrap_or(unknown)
    })
}
