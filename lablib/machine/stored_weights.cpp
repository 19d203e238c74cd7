/* Makes the product of stored_weights.c an operation of MLX's, a node like any other.

   It is written as MLX's guide to extensions has it: a primitive, whose `eval_cpu` hands the work to
   MLX's own thread, and nanobind, in MLX's domain, to pass arrays. The node holds the stored weights
   as its inputs. So whatever becomes of them in Python, edits, copies, the end of a model, a
   product reads those that were there when it was written down. A table from the address of a
   float32 matrix to its packed twin could not promise that, and it would keep both. */

#include <cstdint>
#include <list>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/backend/common/utils.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "mlx/utils.h"

namespace nb = nanobind;
namespace mx = mlx::core;

namespace {

constexpr int COLUMNS = 16;  // of a strip
constexpr const char* NO_GRADIENT =
    "a product with stored weights has no gradient: call model.train(), whose products have";

struct Product {  // stored_weights.c's
    int rows, columns, depth, bits, group, narrow;
    const float* x;
    const std::uint16_t* codes;
    const void *scales, *minima;
    float* y;
};
using Multiply = void (*)(const Product*, void*);
using Space = std::size_t (*)(int, int, int);
Multiply multiply = nullptr;
Space space = nullptr;

// Return an array's numbers in a row: where they lie, or copied.
template <typename T>
const T* in_a_row(const mx::array& a, std::vector<T>& copy) {
    if (a.flags().row_contiguous) return a.data<T>();
    copy.resize(a.size());
    for (std::size_t i = 0; i < a.size(); i++)
        copy[i] = a.data<T>()[mx::elem_to_loc(static_cast<int>(i), a)];
    return copy.data();
}

// Holds the arrays of a node, in a row each, for as long as its work takes.
struct Inputs {
    std::vector<mx::array> held;
    std::list<std::vector<float>> floats;
    std::list<std::vector<std::uint16_t>> words;

    // MLX keeps the inputs' memory until the work is done, and may change the arrays themselves.
    explicit Inputs(const std::vector<mx::array>& inputs) : held(inputs) {}
    const float* numbers(int i) { return in_a_row(held[i], floats.emplace_back()); }
    const std::uint16_t* codes(int i) { return in_a_row(held[i], words.emplace_back()); }
    const void* either(int i) {  // float32, or float16
        return is_narrow(i) ? static_cast<const void*>(codes(i)) : numbers(i);
    }
    bool is_narrow(int i) const { return held[i].dtype() == mx::float16; }
};

class StoredProduct : public mx::UnaryPrimitive {
   public:
    StoredProduct(mx::Stream stream, int columns, int bits, int group)
        : mx::UnaryPrimitive(stream), columns(columns), bits(bits), group(group) {}

    void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
        out.set_data(mx::allocator::malloc(out.nbytes()));
        float* y = out.data<float>();
        auto in = std::make_shared<Inputs>(inputs);
        auto work = [in, y, columns = columns, bits = bits, group = group] {
            const mx::array& x = in->held[0];
            if (x.size() == 0) return;
            int depth = x.shape(-1), rows = static_cast<int>(x.size() / depth);
            Product product{rows, columns, depth, bits, group, in->is_narrow(2), in->numbers(0),
                            in->codes(1), in->either(2), in->either(3), y};
            auto room = std::make_unique_for_overwrite<char[]>(space(rows, depth, group));
            multiply(&product, room.get());
        };
        mx::cpu::get_command_encoder(stream()).dispatch(work);
    }
    void eval_gpu(const std::vector<mx::array>&, mx::array&) override {
        throw std::runtime_error("stored weights are multiplied on a CPU");
    }
    std::vector<mx::array> vjp(const std::vector<mx::array>&, const std::vector<mx::array>&,
                               const std::vector<int>&, const std::vector<mx::array>&) override {
        throw std::runtime_error(NO_GRADIENT);
    }
    std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
        mx::Shape shape = inputs[0].shape();
        shape.back() = columns;
        return {shape};
    }
    bool is_equivalent(const mx::Primitive& other) const override {
        auto& o = static_cast<const StoredProduct&>(other);
        return columns == o.columns && bits == o.bits && group == o.group;
    }
    const char* name() const override { return "StoredProduct"; }

   private:
    int columns, bits, group;
};

void require(bool is_so, const char* what) {
    if (!is_so) throw std::invalid_argument(what);
}

struct Form {
    int columns, bits, group;
    bool operator==(const Form&) const = default;
};

void check_weight(const mx::array& codes, const mx::array& scales, const mx::array& minima,
                  Form form, std::size_t depth) {
    auto [columns, bits, group] = form;
    require(bits == 4 || bits == 8, "bits must be 4 or 8");
    require(group >= 16 && group <= 256 && group % 16 == 0, "group must be 16, 32, ..., 256");
    require(columns > 0, "columns must be positive");
    std::size_t strips = (columns + COLUMNS - 1) / COLUMNS;
    require(depth > 0 && depth % group == 0, "depth must be a multiple of group");
    require(codes.dtype() == mx::uint16 && codes.size() == strips * COLUMNS * depth * bits / 16,
            "codes must be uint16, as many as columns and depth need");
    for (auto* each : {&scales, &minima})
        require((each->dtype() == mx::float32 || each->dtype() == mx::float16) &&
                    each->dtype() == scales.dtype() &&
                    each->size() == strips * COLUMNS * depth / group,
                "scales and minima must be float32 or float16, one a group");
}

mx::array product(const mx::array& x, const mx::array& codes, const mx::array& scales,
                  const mx::array& minima, int columns, int bits, int group) {
    require(x.ndim() > 0 && x.dtype() == mx::float32, "x must be float32, (..., depth)");
    check_weight(codes, scales, minima, {columns, bits, group}, x.shape(-1));
    mx::Shape shape = x.shape();
    shape.back() = columns;
    auto node = std::make_shared<StoredProduct>(mx::to_stream({}), columns, bits, group);
    return mx::array(std::move(shape), mx::float32, node, {x, codes, scales, minima});
}

}  // namespace
