// The table of all studies: what `assay run` is made of, and every command that measures.
#pragma once

#include <any>
#include <string>
#include <string_view>
#include <vector>

#include "assay/studies/study.h"

namespace assay {

// In the order in which `assay run` takes those that are a part of it.
const std::vector<Study>& studies();

// Throws UsageError for a name that is none.
const Study& study_named(std::string_view name);

// A study with its options, to be run.
struct PlannedStudy {
  const Study* study = nullptr;
  std::any options = {};
  // By flags: its cases, as --lengths does, which no budget leaves out; and how many tokens they generate.
  bool has_asked_cases = false, has_asked_tokens = false;
};

// The cases of all, without those of studies that would do nothing: what a dry run shows. Throws what the
// studies throw for what cannot be measured.
std::vector<Case> cases_of(const ExperimentContext& context, const std::vector<PlannedStudy>& plan);

// What the studies cost, without those that would do nothing.
std::vector<CostedStudy> costs_of(const ExperimentContext& context, const std::vector<PlannedStudy>& plan,
                                  const CostOf& cost_of);

// One study after the other, those that a decision needs most first where the context's choice leaves
// anything out, until the run is interrupted; then all their comparisons are judged together.
// `seconds_of` predicts one run of a case, for the time left; empty: no time is told.
ExperimentResult run_studies(ExperimentContext context, const std::vector<PlannedStudy>& plan,
                             const PredictedSeconds& seconds_of = {});

}  // namespace assay
