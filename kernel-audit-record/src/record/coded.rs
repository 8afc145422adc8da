//! Writes and reads values of several parts, such as the explanation of a hang, as bytes of a record. Reading survives any bytes.

use super::texts::SharedText;

/// A value that a record can hold.
pub(crate) trait Coded: Sized {
    fn encode(&self, to: &mut Vec<u8>);

    /// Reads a value and takes its bytes away from `from`. Returns `None` if the bytes are no such value.
    fn decode(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! coded_numbers {
    ($($number:ty),*) => {$(
        impl Coded for $number {
            fn encode(&self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }

            fn decode(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

coded_numbers!(u8, u16, u32, u64);

impl Coded for bool {
    fn encode(&self, to: &mut Vec<u8>) {
        u8::from(*self).encode(to);
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        u8::decode(from).map(|byte| byte != 0)
    }
}

impl Coded for SharedText {
    fn encode(&self, to: &mut Vec<u8>) {
        let most = self.len().min(u16::MAX.into());
        let length = (0..=most).rev().find(|length| self.is_char_boundary(*length)).unwrap_or(0);
        (length as u16).encode(to);
        to.extend(&self.as_bytes()[..length]);
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        let length = u16::decode(from)?;
        let (bytes, rest) = from.split_at_checked(length.into())?;
        *from = rest;
        Some(String::from_utf8_lossy(bytes).into())
    }
}

impl<T: Coded> Coded for Option<T> {
    fn encode(&self, to: &mut Vec<u8>) {
        self.is_some().encode(to);
        self.iter().for_each(|value| value.encode(to));
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        if bool::decode(from)? { T::decode(from).map(Some) } else { Some(None) }
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn encode(&self, to: &mut Vec<u8>) {
        let some = &self[..self.len().min(u16::MAX.into())];
        (some.len() as u16).encode(to);
        some.iter().for_each(|value| value.encode(to));
    }

    fn decode(from: &mut &[u8]) -> Option<Self> {
        // Nothing is reserved: the count may be a lie. Each value takes at least a byte, so the bytes end it.
        (0..u16::decode(from)?).map(|_| T::decode(from)).collect()
    }
}

/// Implements [`Coded`] for a struct, field by field.
macro_rules! coded_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::record::coded::Coded for $name {
            fn encode(&self, to: &mut Vec<u8>) {
                $(self.$field.encode(to);)*
            }

            fn decode(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::record::coded::Coded::decode(from)?,)* })
            }
        }
    };
}

pub(crate) use coded_struct;
