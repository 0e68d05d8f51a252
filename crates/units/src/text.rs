//! Serde for types that are written as text.

/// Implements `Serialize` by `Display`, and `Deserialize` by `FromStr`, for a type of the calling
/// crate, which depends on `serde`.
#[macro_export]
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Defines an enum of a few stable names, such as the codes that metrics count by. It has all its variants
/// in their order, their names, and their places.
#[macro_export]
macro_rules! names {
    ($(#[$doc:meta])* $visibility:vis enum $type:ident { $($variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $type {
            $(#[doc = concat!("`", $name, "`.")] $variant,)+
        }

        impl $type {
            /// All, in the order of their indices.
            $visibility const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// A stable name in snake case.
            #[must_use]
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The position in an array that has an element for each.
            #[must_use]
            $visibility const fn index(self) -> usize {
                self as usize
            }
        }
    };
}
