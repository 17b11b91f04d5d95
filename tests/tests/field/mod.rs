//! Faults that people reported of such systems, each as a test of the real programs: one module
//! per case, each beginning with the symptom as it was reported.

mod faults;
mod harness;
mod o20;
mod o21;
mod o22;
mod o24;
mod o25;
mod o29;
mod o30;
