package speedwell;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * A piece of Java code in its own loop. The code generated around it passes its parts one after the other,
 * so that the compiler infers each part's types from the previous ones, and ends with {@link
 * Complete#serve}. The rest of this package is the harness side of docs/reference/protocol.md, "Measuring
 * code".
 */
public final class Code {
  private Code() {}

  /** Creates the shared value. */
  public interface Init<S> {
    S init() throws Throwable;
  }

  /** Creates the state of a worker, on the worker's thread. */
  public interface Begin<S, T> {
    T begin(S shared) throws Throwable;
  }

  /** Executes this many iterations. */
  public interface Batch<S, T> {
    Finished batch(Place<S> shared, Place<T> state, int iterations) throws Throwable;
  }

  /** Executed after the workers have ended. */
  public interface Done<S> {
    void done(S shared) throws Throwable;
  }

  /**
   * What the function that holds the loop returns: a separate type, so that the compiler rejects a return
   * in the code that would leave the loop.
   */
  public static final class Finished {
    public static final Finished FINISHED = new Finished();

    private Finished() {}
  }

  /** Holds a value between batches; iterations that must not be computed ahead read it again each time. */
  public static final class Place<V> {
    private static final VarHandle VALUE;

    static {
      try {
        VALUE = MethodHandles.lookup().findVarHandle(Place.class, "value", Object.class);
      } catch (ReflectiveOperationException error) {
        throw new ExceptionInInitializerError(error);
      }
    }

    private Object value;

    Place(V value) {
      this.value = value;
    }

    @SuppressWarnings("unchecked")
    public V get() {
      return (V) VALUE.getOpaque(this);
    }

    public void set(V value) {
      this.value = value;
    }
  }

  public static <S> WithInit<S> init(Init<S> init) {
    return new WithInit<>(init);
  }

  public static final class WithInit<S> {
    private final Init<S> init;

    WithInit(Init<S> init) {
      this.init = init;
    }

    public <T> WithBegin<S, T> begin(Begin<S, T> begin) {
      return new WithBegin<>(init, begin);
    }
  }

  public static final class WithBegin<S, T> {
    private final Init<S> init;
    private final Begin<S, T> begin;

    WithBegin(Init<S> init, Begin<S, T> begin) {
      this.init = init;
      this.begin = begin;
    }

    public WithBatch<S, T> batch(Batch<S, T> batch) {
      return new WithBatch<>(init, begin, batch);
    }
  }

  public static final class WithBatch<S, T> {
    private final Init<S> init;
    private final Begin<S, T> begin;
    private final Batch<S, T> batch;

    WithBatch(Init<S> init, Begin<S, T> begin, Batch<S, T> batch) {
      this.init = init;
      this.begin = begin;
      this.batch = batch;
    }

    public Complete<S, T> done(Done<S> done) {
      return new Complete<>(init, begin, batch, done);
    }
  }

  /** All parts of the code. */
  public static final class Complete<S, T> {
    final Init<S> init;
    final Begin<S, T> begin;
    final Batch<S, T> batch;
    final Done<S> done;

    Complete(Init<S> init, Begin<S, T> begin, Batch<S, T> batch, Done<S> done) {
      this.init = init;
      this.begin = begin;
      this.batch = batch;
      this.done = done;
    }

    /**
     * Serves Speedwell; {@code places} are three numbers for each part of the user's texts: its first and
     * last line in the generated file, and the number that the user gives its first line.
     */
    public void serve(int... places) throws Exception {
      Control.serve(this, places);
    }
  }
}
