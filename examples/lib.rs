//! The examples are programs: see the folders beside this file.
