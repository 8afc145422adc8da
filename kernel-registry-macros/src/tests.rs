//! What the attribute writes and says, without a compiler: parse, expand, print, compare.
