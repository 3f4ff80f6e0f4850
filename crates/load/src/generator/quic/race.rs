//! Waiting for whichever of two things comes first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which one came.
pub(super) enum First<A, B> {
    This(A),
    That(B),
}

/// Waits for both, and gives up the one that is not first. When both are there, `this` counts.
pub(super) async fn race<A, B>(
    this: impl Future<Output = A>,
    that: impl Future<Output = B>,
) -> First<A, B> {
    let (mut this, mut that) = (pin!(this), pin!(that));
    poll_fn(|context| {
        if let Poll::Ready(this) = this.as_mut().poll(context) {
            return Poll::Ready(First::This(this));
        }
        that.as_mut().poll(context).map(First::That)
    })
    .await
}
