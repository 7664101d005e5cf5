#include "sim/config/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/config/format_parts.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"

namespace syncline {

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(LatentAttention& latent);
Fields fields_of(ExpertSpec& experts);
Fields fields_of(PublishedFigure& figure);
Fields fields_of(Expectation& expectation);

namespace {

constexpr Limits Width{.low = 1, .high = 16777216};  // of anything in a model

constexpr Limits Predictions{.low = 0, .high = 64};

// Of a metric in its SI unit.
constexpr Limits AnyFigure{.low = -1e30, .high = 1e30};
constexpr Limits PositiveFigure{.low = 0, .high = 1e30, .above_low = true};
constexpr Limits Tolerance{.low = 0, .high = 1e30};

// --- scenario ---

/// A value of a metric in its own unit: a time, a size, a rate of compute, or a plain number.
Codec metric_value_codec(double& value, const std::string& metric, Limits limits) {
  // `use` gets the codec of that kind; the value passes through a quantity of its own.
  const auto as = [&value]<class Quantity>(Quantity quantity, Limits bounds, const auto& use) {
    use(codec(quantity, bounds));
    value = quantity.si();
  };
  const auto by_unit = [&value, &metric, limits, as](const auto& use) {
    const std::vector<std::string> known = metric_names();
    if (std::ranges::find(known, metric) == known.end()) return;  // reported where the metric stands
    switch (find_metric(metric).unit) {
      case MetricUnit::Time: return as(Seconds(value), limits, use);
      case MetricUnit::Size: return as(Bytes(value), limits, use);
      case MetricUnit::FlopRate: return as(FlopPerSecond(value), limits, use);
      case MetricUnit::Power: return as(Watts(value), limits, use);
      case MetricUnit::Energy:  // J
      case MetricUnit::Money:   // US dollars
      case MetricUnit::Share:
      case MetricUnit::TokenRate:
      case MetricUnit::Count: return use(codec(value, limits));
    }
  };
  return {"a value with the metric's unit",
          [by_unit](const ConfigValue& node) { by_unit([&node](const Codec& unit) { unit.read(node); }); },
          [by_unit] {
            ConfigNode node;
            by_unit([&node](const Codec& unit) { node = unit.write(); });
            return node;
          }};
}
Codec metric_value_codec(std::optional<double>& value, const std::string& metric, Limits limits) {
  return {"a value with the metric's unit",
          [&value, &metric, limits](const ConfigValue& node) {
            metric_value_codec(value.emplace(), metric, limits).read(node);
          },
          [&value, &metric, limits] {
            return value ? metric_value_codec(*value, metric, limits).write() : ConfigNode{};
          }};
}

/// `metric: {value: .., within: ..}` and `metric: {at-least: .., at-most: ..}`.
Codec expect_codec(std::vector<Expectation>& expect) {
  const auto read = [&expect](const ConfigValue& value) {
    if (value.node.kind != ConfigNode::Kind::Map) return read_fields(value, {});
    const std::vector<std::string> metrics = metric_names();
    expect.clear();
    for (const ConfigEntry& entry : value.node.entries) {
      Expectation& item = expect.emplace_back();
      item.metric = entry.key;
      if (std::ranges::find(metrics, entry.key) == metrics.end()) {
        value.errors.add(entry.mark.place(), unknown_name("metric", entry.key, metrics));
        continue;
      }
      const ConfigValue inside{entry.value, entry.mark, value.below(entry.key), value.errors};
      read_fields(inside, fields_of(item));
      if (entry.value.kind != ConfigNode::Kind::Map) continue;
      const bool range = entry.value.find("at-least") != nullptr || entry.value.find("at-most") != nullptr;
      const bool target = entry.value.find("value") != nullptr && entry.value.find("within") != nullptr;
      if (range == target)
        inside.fail("expected either value and within, or at-least and at-most or one of them");
      else if (item.at_least && item.at_most && *item.at_least > *item.at_most)
        inside.fail("at-least is above at-most, so that nothing holds; swap them");
    }
  };
  const auto write = [&expect] {
    ConfigNode map = write_fields({});
    for (Expectation& item : expect) map.entries.push_back({item.metric, {}, write_fields(fields_of(item))});
    return expect.empty() ? ConfigNode{} : map;
  };
  return {"metrics with what they should be", read, write};
}

}  // namespace

// --- the formats ---

Fields fields_of(ModelSpec& model) {
  return {version_field(false),
          optional("name", model.name),
          optional("source", model.source),
          required("layers", model.layers, Layers),
          required("hidden", model.hidden, Width),
          required("heads", model.heads, Width),
          required("kv-heads", model.kv_heads, Width),
          {"head-size", false, given_count_codec(model.head_size, Width)},
          required("ffn", model.ffn, Width),
          required("vocabulary", model.vocabulary, Width),
          optional("tied-embedding", model.tied_embedding),
          optional("norm", model.norm, Names<Norm>{{"rms", Norm::Rms}, {"layer", Norm::Layer}}),
          optional("activation", model.activation,
                   Names<Activation>{{"swiglu", Activation::Swiglu}, {"gelu", Activation::Gelu}}),
          optional("position", model.position,
                   Names<Position>{{"rotary", Position::Rotary}, {"learned", Position::Learned}}),
          {"max-sequence", false, given_count_codec(model.max_sequence, Width)},
          optional("bias", model.bias),
          optional("output-projection", model.output_projection),
          optional("latent", model.latent),
          optional("experts", model.experts),
          optional("multi-token-prediction", model.extra_predictions, Predictions),
          {"sliding-window", false, given_count_codec(model.window, Width)},
          printed_if(model.window > 0, optional("sliding-every", model.window_every, Layers))};
}

Fields fields_of(LatentAttention& latent) {
  constexpr Limits AnyRank{.low = 0, .high = Width.high};
  return {optional("query-rank", latent.query_rank, AnyRank),
          required("key-value-rank", latent.key_value_rank, Width),
          required("plain", latent.plain_size, Width), required("rotary", latent.rotary_size, Width),
          required("value", latent.value_size, Width)};
}

Fields fields_of(PublishedFigure& figure) {
  return {{"metric", true, kept_word_codec(figure.metric, metric_names())},
          {"value", true, metric_value_codec(figure.value, figure.metric, PositiveFigure)},
          {"accelerators", false, given_count_codec(figure.accelerators, Accelerators)},
          required("source", figure.source)};
}

Fields fields_of(Expectation& expectation) {
  const auto field = [&expectation](std::string_view key, std::optional<double>& value, Limits limits) {
    return Field{key, false, metric_value_codec(value, expectation.metric, limits)};
  };
  return {field("value", expectation.value, AnyFigure), field("within", expectation.within, Tolerance),
          field("at-least", expectation.at_least, AnyFigure),
          field("at-most", expectation.at_most, AnyFigure)};
}

Fields fields_of(Scenario& scenario) {
  Fields fields{version_field(true), optional("name", scenario.name), optional("question", scenario.question),
                optional("source", scenario.source)};
  const auto add = [&fields](Fields more) { fields.insert(fields.end(), more.begin(), more.end()); };
  if (scenario.given)
    add({{"schedule", true, codec(scenario.given->file)},
         required("topology", scenario.topology),
         printed_if(scenario.device.name != ideal_device().name, optional("device", scenario.device))});
  else if (scenario.textbook)
    add({optional("topology", scenario.textbook->topology), required("pipeline", *scenario.textbook)});
  else
    add(training_fields(scenario));
  add(fault_fields(scenario));
  add({optional_block("run", {{"detail", false, kept_word_codec(scenario.detail, {"aggregate", "full"})},
                              optional("seed", scenario.seed),
                              printed_if(scenario.fold, optional("fold", scenario.fold))}),
       optional("published", scenario.published),
       {"expect", false, expect_codec(scenario.expect)}});
  return fields;
}

}  // namespace syncline
