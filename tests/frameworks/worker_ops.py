"""Runs PyTorch's DataLoader with forked workers, which do not use CUDA, and with spawned workers, which have a context of their own."""
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __init__(self, device):
        self.device = device

    def __len__(self):
        return 16

    def __getitem__(self, number):
        value = torch.tensor(float(number), device=self.device)
        return (value * value + torch.sin(value)).cpu()


def total(device, method):
    loader = DataLoader(Squares(device), batch_size=4, num_workers=2, multiprocessing_context=method)
    return round(sum(batch.to("cuda").sum() for batch in loader).item(), 2)


if __name__ == "__main__":
    print(total("cpu", "fork"), total("cuda", "spawn"))
