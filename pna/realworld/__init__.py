"""The real-world benchmarks of figure 6: ZINC, MolHIV, and the superpixels of CIFAR10 and MNIST.

Networks and training are those of the released code. There are these differences:

- The seeds of a model train together on the same batches; in the released code each seed shuffles for itself.
- The test metric is taken with the weights that were best on validation, and also after the last epoch, which is what
  the published numbers of ZINC and the superpixels are. On MolHIV both codes take the best on validation.
- A loss or metric of a set is the mean over its graphs; the released code averages the means of its batches.
- δ of equation 5 is of the messages that a node receives, which is what the scalers see. On superpixels the released
  code seems to take the edges that leave a node, eight for each.
- A superpixel's nine nearest lose one as the published ones do, in distribution and not edge by edge.
- ogb has one more category of atoms now than it had then: MolHIV's network has 80 parameters more.
"""
