#!/usr/bin/env python3
"""Writes a small Llama with random weights (2 layers, bf16) and a byte tokenizer into a folder, the same each time."""
import array
import json
import os
import random
import struct
import sys

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INNER = 512, 2, 4, 2, 128, 1024


def bytes_to_chars():
    """GPT-2's characters for bytes."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars, more = {}, 0
    for byte in range(256):
        if byte in keep:
            chars[byte] = chr(byte)
        else:
            chars[byte] = chr(256 + more)
            more += 1
    return chars


def tokens():
    chars = bytes_to_chars()
    vocab = {chars[byte]: byte for byte in range(256)}
    special = {"<s>": 256, "</s>": 257}
    added = [
        {"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for text, id in special.items()
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    bpe = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
           "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {**vocab, **special}, "merges": []}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": bpe}


def bf16(values):
    out = array.array("H")
    for value in values:
        out.append(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    return out.tobytes()


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    vocab = 320
    generator = random.Random(7)
    # 4096 numbers, from which each matrix takes its own by chance: fast, and random enough.
    pool = [struct.pack("<H", struct.unpack("<I", struct.pack("<f", generator.gauss(0, 1)))[0] >> 16) for _ in range(4096)]

    def matrix(rows, columns, scale):
        scaled = [bf16([scale * struct.unpack("<f", b"\0\0" + number)[0]]) for number in pool]
        return b"".join(generator.choices(scaled, k=rows * columns))

    tensors = {"model.embed_tokens.weight": ([vocab, HIDDEN], matrix(vocab, HIDDEN, 1.0))}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for part, rows, columns in [
            ("self_attn.q_proj", HEADS * HEAD, HIDDEN), ("self_attn.k_proj", KV_HEADS * HEAD, HIDDEN),
            ("self_attn.v_proj", KV_HEADS * HEAD, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * HEAD),
            ("mlp.gate_proj", INNER, HIDDEN), ("mlp.up_proj", INNER, HIDDEN), ("mlp.down_proj", HIDDEN, INNER),
        ]:
            tensors[f"{name}{part}.weight"] = ([rows, columns], matrix(rows, columns, columns**-0.5))
        for part in ["input_layernorm", "post_attention_layernorm"]:
            tensors[f"{name}{part}.weight"] = ([HIDDEN], bf16([1.0] * HIDDEN))
    tensors["model.norm.weight"] = ([HIDDEN], bf16([1.0] * HIDDEN))
    # Only lower-case letters and the space are ever answered.
    said = {byte for byte in range(97, 123)} | {32}
    rows = [matrix(1, HIDDEN, 0.2) if row in said else bytes(2 * HIDDEN) for row in range(vocab)]
    tensors["lm_head.weight"] = ([vocab, HIDDEN], b"".join(rows))

    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)

    template = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": HIDDEN,
            "intermediate_size": INNER, "vocab_size": vocab, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "max_position_embeddings": 4096, "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "bos_token_id": 256, "eos_token_id": 257,
        },
        "generation_config.json": {"bos_token_id": 256, "eos_token_id": 257},
        "tokenizer_config.json": {
            "add_bos_token": False, "bos_token": "<s>", "eos_token": "</s>", "chat_template": template,
            "clean_up_tokenization_spaces": False, "model_max_length": 4096, "tokenizer_class": "PreTrainedTokenizerFast",
        },
        "tokenizer.json": tokens(),
    }
    for name, value in files.items():
        with open(f"{folder}/{name}", "w") as file:
            json.dump(value, file)


main()
