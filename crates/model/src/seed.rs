//! Seeds that follow from another seed, in a row of their own.

/// The seed of a step: a number of 31 bits, which every language holds exactly. The distance between steps is that of
/// Weyl's sequence in SplitMix64 (Steele, Lea, Flood 2014), and so is the first of its two mixings.
pub fn seed_of_step(seed: u64, step: u32) -> u64 {
    let weyl = seed.wrapping_add((u64::from(step) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (weyl ^ (weyl >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}
