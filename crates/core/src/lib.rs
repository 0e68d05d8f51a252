//! Part of hikyaku.
