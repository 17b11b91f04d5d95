//! Faults that people reported of such systems, each as a test of the real programs: one module
//! per case, each beginning with the symptom as it was reported.

mod harness;
mod o01;
mod o02;
mod o03;
mod o04;
mod o05;
mod o06;
mod o07;
mod o08;
mod o09;
mod o10;
mod o11;
mod o12;
mod o13;
mod o16;
mod o18;
mod o19;
mod o20;
mod o21;
mod o22;
mod o23;
mod o24;
mod o25;
mod o26;
mod o28;
mod o29;
mod o30;
