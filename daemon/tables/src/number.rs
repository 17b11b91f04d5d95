//! Exact numbers: every `i64` and `u64`, and every finite `f64` bit for bit.
//!
//! JSON's `1` and `1.0` are different [`Number`]s (each is written back as it came) that compare
//! equal. Nothing here rounds: order and sums go through an exact sign, exponent and mantissa.

use std::cmp::Ordering;

/// An exact JSON number. `==` tells `1` from `1.0` and `0.0` from `-0.0`; [`Number::order`] does
/// not.
#[derive(Debug, Clone, Copy)]
pub struct Number(Repr);

/// The one representation of each number: `Above` only past `i64::MAX`, `Float` only finite.
#[derive(Debug, Clone, Copy)]
enum Repr {
    Int(i64),
    Above(u64),
    Float(f64),
}

/// A [`Number`] taken apart, for a `match`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberKind {
    /// An integer within `i64`.
    Int(i64),
    /// An integer above `i64::MAX`.
    Above(u64),
    /// A finite float.
    Float(f64),
}

impl Number {
    /// A float, unless it is NaN or infinite, which JSON cannot hold.
    pub fn float(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(Repr::Float(value)))
    }

    /// An integer, unless it lies outside both `i64` and `u64`.
    pub fn integer(value: i128) -> Option<Self> {
        i64::try_from(value).map(Self::from).or_else(|_| u64::try_from(value).map(Self::from)).ok()
    }

    /// How the number is represented.
    pub fn kind(&self) -> NumberKind {
        match self.0 {
            Repr::Int(value) => NumberKind::Int(value),
            Repr::Above(value) => NumberKind::Above(value),
            Repr::Float(value) => NumberKind::Float(value),
        }
    }

    /// Compares by value, exactly, over integers and floats; `-0.0` equals `0`.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Repr::Int(a), Repr::Int(b)) => a.cmp(&b),
            (Repr::Above(a), Repr::Above(b)) => a.cmp(&b),
            _ => self.exact().cmp(&other.exact()),
        }
    }

    /// The value as sign, exponent and mantissa.
    pub(crate) fn exact(&self) -> Exact {
        match self.0 {
            Repr::Int(value) => Exact::of_integer(value.into()),
            Repr::Above(value) => Exact::of_integer(value.into()),
            Repr::Float(value) => Exact::of_float(value),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Repr::Int(a), Repr::Int(b)) => a == b,
            (Repr::Above(a), Repr::Above(b)) => a == b,
            (Repr::Float(a), Repr::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl Eq for Number {}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(Repr::Int(value))
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(i64::try_from(value).map_or(Repr::Above(value), Repr::Int))
    }
}

/// An exact real number, ordered by value: `sign * mantissa * 2^(exponent - 127)`, the mantissa's
/// top bit set unless the value is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exact {
    /// -1, 0 or 1.
    pub(crate) sign: i8,
    /// Power of two of the mantissa's top bit: -1074..=1023 for what a `Number` holds.
    pub(crate) exponent: i16,
    /// Left-aligned; a `Number` needs only the upper 64 bits.
    pub(crate) mantissa: u128,
}

impl Exact {
    const ZERO: Self = Self { sign: 0, exponent: 0, mantissa: 0 };

    pub(crate) fn of_integer(value: i128) -> Self {
        Self::of_parts(value < 0, value.unsigned_abs(), 0)
    }

    /// A finite float; an infinity would sort beyond all others, a NaN beyond that.
    pub(crate) fn of_float(value: f64) -> Self {
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7ff) as i16;
        let fraction = bits & ((1 << 52) - 1);
        let (magnitude, power) =
            if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
        Self::of_parts(value.is_sign_negative(), magnitude.into(), power)
    }

    fn of_parts(negative: bool, magnitude: u128, power: i16) -> Self {
        if magnitude == 0 {
            return Self::ZERO;
        }
        let shift = magnitude.leading_zeros();
        Self {
            sign: if negative { -1 } else { 1 },
            exponent: power + 127 - shift as i16,
            mantissa: magnitude << shift,
        }
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |of: &Self| (of.exponent, of.mantissa);
        self.sign.cmp(&other.sign).then_with(|| match self.sign {
            1 => size(self).cmp(&size(other)),
            _ => size(other).cmp(&size(self)),
        })
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> Number {
        Number::float(value).unwrap()
    }

    #[test]
    fn one_value_has_one_representation() {
        assert_eq!(Number::from(7_u64), Number::from(7_i64));
        assert_eq!(Number::integer(i128::from(u64::MAX)), Some(Number::from(u64::MAX)));
        assert_eq!(Number::integer(i128::from(u64::MAX) + 1), None);
        assert_eq!(Number::integer(i128::from(i64::MIN) - 1), None);
        assert_eq!(Number::float(f64::NAN), None);
        assert_eq!(Number::float(f64::INFINITY), None);
    }

    #[test]
    fn equality_is_exact_and_order_is_by_value() {
        assert_ne!(Number::from(1_i64), float(1.0));
        assert_eq!(Number::from(1_i64).order(&float(1.0)), Ordering::Equal);
        assert_ne!(float(0.0), float(-0.0));
        assert_eq!(float(0.0).order(&float(-0.0)), Ordering::Equal);
    }

    #[test]
    fn neighbours_that_floats_cannot_tell_apart_stay_apart() {
        let rising = [
            float(f64::MIN),
            Number::from(i64::MIN),
            Number::from(i64::MIN + 1),
            Number::from(-1_i64),
            float(-f64::MIN_POSITIVE),
            float(-5e-324),
            Number::from(0_i64),
            float(5e-324),
            float(0.1),
            Number::from(9_007_199_254_740_992_i64),
            Number::from(9_007_199_254_740_993_i64),
            float(9_007_199_254_740_994.0),
            Number::from(i64::MAX),
            float(9.223_372_036_854_776e18),
            Number::from(u64::MAX),
            float(1.844_674_407_370_955_2e19),
            float(f64::MAX),
        ];
        for (index, pair) in rising.windows(2).enumerate() {
            assert_eq!(pair[0].order(&pair[1]), Ordering::Less, "at {index}");
            assert_eq!(pair[1].order(&pair[0]), Ordering::Greater, "at {index}");
        }
    }
}
