//! Faults that people reported of such systems, each as a test of the real programs: one module
//! per case, each beginning with the symptom as it was reported.

mod harness;
