//! Measures one piece of Rust code that is compiled into the same program: the other end of
//! docs/reference/protocol.md, "Measuring code".
//!
//! Compiled once for each compiler and set of flags, without Cargo and without other crates. What is
//! generated around the code calls [`serve`]; the loop itself stands there, and uses [`keep`],
//! [`change`] and [`Held`].

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

/// The code as the rest sees it: without its types, so that everything but the loop is compiled beforehand.
pub(crate) trait Code: Sync {
    fn init(&self);
    fn begin(&self) -> Box<dyn Any>;
    fn batch(&self, state: &mut dyn Any, iterations: u64);
    fn empty(&self, iterations: u64);
    fn done(&self);
    /// Drops the shared value.
    ///
    /// # Safety
    /// No worker is left that could use it.
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
        // SAFETY: the control part calls init first, and releases the value when nobody can ask any more.
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
            // SAFETY: it came from a box, and the caller promises that nobody uses it.
            drop(unsafe { Box::from_raw(shared) });
        }
    }
}

/// Speaks with Speedwell until it has nothing more to say. `batch` performs so many iterations, `empty` as
/// many of a runner that does nothing. The order of the parameters is the order in which their types are
/// found: what `init` gives is known where the runner uses it.
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

/// Keeps what a panic says for the event that will tell it, instead of printing it.
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

/// Executes `code`, whose panic is its error.
pub(crate) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| {
        let unknown = Fault {
            message: "a panic without a message".to_owned(),
            place: None,
        };
        FAULT.take().unwrap_or(unknown)
    })
}
