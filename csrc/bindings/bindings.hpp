// The parts of the Python module verispec._native, one function a file.
#pragma once

#include <nanobind/nanobind.h>

namespace verispec {

void bind_memory(nanobind::module_& m);    // ThreadPool, Workspace, KvCache, RopeTable, Vector
void bind_weights(nanobind::module_& m);   // Weights, Matrix
void bind_states(nanobind::module_& m);    // StateCache
void bind_program(nanobind::module_& m);   // Program, with bind_recording
void bind_drafting(nanobind::module_& m);  // SuffixAutomaton
void bind_sampling(nanobind::module_& m);  // Sampler, TokenHistory, log_probabilities, gumbel
void bind_measure(nanobind::module_& m);   // ReadStream

class Program;
void bind_recording(nanobind::class_<Program>& program);

}  // namespace verispec
