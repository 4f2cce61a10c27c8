// The small models of tools/make_family_fixtures.py beside Llama's: two and more of each family.
#pragma once

namespace assay::test {

inline constexpr const char* kFamilyModels[] = {
    "mistral_window",    "mistral_yarn",      "qwen2_biased",    "qwen2_window",        "qwen3_heads",
    "qwen3_yarn",        "gpt_neox_parallel", "gpt_neox_serial", "gpt_neo_alternating", "gpt_neo_untied",
    "opt_plain",         "opt_post_norm",     "opt_projected",   "phi_partial",         "phi_normed",
    "phi3_window",       "phi3_longrope",     "phi3_beyond",     "gemma_legacy",        "gemma_biased",
    "gemma2_capped",     "gemma2_typed",      "gemma3_scaled",   "gemma3_typed",        "smollm3_interval",
    "smollm3_window",    "olmo2_grouped",     "olmo2_biased",    "granite_scaled",      "granite_biased",
    "stablelm_serial",   "stablelm_normed",   "falcon_one_key",  "falcon_grouped",      "falcon_alibi",
    "bloom_four",        "bloom_six",         "gptj_partial",    "gptj_whole",          "starcoder2_window",
    "starcoder2_untied", "cohere_scaled",     "cohere_biased"};

}  // namespace assay::test
