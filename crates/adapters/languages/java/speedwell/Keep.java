package speedwell;

/**
 * Consumes results. The compiler is told to treat calls of {@code keep} as uses of the value and to emit
 * nothing for them (CompileCommand=blackhole, since Java 17). {@code unbox} gives a variable the primitive
 * type of its value, so that changing it allocates nothing.
 */
public final class Keep {
  private Keep() {}

  public static void keep(boolean value) {}

  public static void keep(byte value) {}

  public static void keep(char value) {}

  public static void keep(short value) {}

  public static void keep(int value) {}

  public static void keep(long value) {}

  public static void keep(float value) {}

  public static void keep(double value) {}

  public static void keep(Object value) {}

  public static boolean unbox(Boolean value) {
    return value;
  }

  public static byte unbox(Byte value) {
    return value;
  }

  public static char unbox(Character value) {
    return value;
  }

  public static short unbox(Short value) {
    return value;
  }

  public static int unbox(Integer value) {
    return value;
  }

  public static long unbox(Long value) {
    return value;
  }

  public static float unbox(Float value) {
    return value;
  }

  public static double unbox(Double value) {
    return value;
  }

  public static <V> V unbox(V value) {
    return value;
  }
}
